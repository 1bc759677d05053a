# A solver: seven pigeons in six holes, in which there is no place for all, and equations over words of 32 bits.
if [ "$1" = prepare ]; then
    {
        for pigeon in 1 2 3 4 5 6 7; do
            for hole in 1 2 3 4 5 6; do echo "(declare-const p$pigeon$hole Bool)"; done
        done
        for pigeon in 1 2 3 4 5 6 7; do
            echo "(assert (or p${pigeon}1 p${pigeon}2 p${pigeon}3 p${pigeon}4 p${pigeon}5 p${pigeon}6))"
            for other in 1 2 3 4 5 6 7; do
                [ "$other" -gt "$pigeon" ] || continue
                for hole in 1 2 3 4 5 6; do echo "(assert (or (not p$pigeon$hole) (not p$other$hole)))"; done
            done
        done
        echo '(check-sat) (reset)'
        echo '(declare-const x (_ BitVec 32)) (declare-const y (_ BitVec 32))'
        echo '(assert (= (bvmul x y) #x0003f1ed)) (assert (bvult x y)) (assert (bvugt x #x00000001))'
        echo '(assert (bvult y #x00010000)) (check-sat)'
    } > pigeons.smt2
    exit
fi
exec "$PROGRAM" pigeons.smt2
