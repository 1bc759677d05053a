# The shell and the small programs around it: pipelines, functions, here-documents, substitution, traps.

fibonacci() {
    if [ "$1" -lt 2 ]; then echo "$1"; else
        echo $(($(fibonacci $(($1 - 1))) + $(fibonacci $(($1 - 2)))))
    fi
}

words=$(seq 1 20000 | tr '\n' ' ')
echo "${#words} characters in a variable"
echo "fibonacci: $(fibonacci 10)"

total=0
for word in $words; do
    total=$((total + word))
done
echo "sum: $total"

seq 1 30000 | awk '{ print $1 % 97, $1 }' | sort -n -k1,1 -k2,2r | uniq -c | sed -n '1~2500p'
seq 1 50000 > copy
gzip -9n < copy | gunzip | cmp - copy && echo "gzip: equal"
mkdir -p a/b/c && for i in $(seq 1 200); do echo "file $i" > "a/b/c/$i"; done
tar -cf - --sort=name --mtime=@0 --owner=0 --group=0 a | cksum
find a -type f | sort | xargs grep -l 7 | wc -l
cat <<END | tr '[:lower:]' '[:upper:]' | rev
here-document of $(date -u -d @0 +%Y)
END
(trap 'echo trapped' TERM; kill -TERM "$(exec sh -c 'echo $PPID')"; echo "after the trap")
i=0
while [ $i -lt 200 ]; do
    /bin/true || echo "true failed"
    i=$((i + 1))
done
(exit 3) || echo "a subshell ended with status $?"
