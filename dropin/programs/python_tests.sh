# python3's own tests of lists, dictionaries, JSON and threads. Only times differ from run to run.
export PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1

for test in test_list test_dict test_json test_thread; do
    status=0
    /usr/bin/python3 -m test "$test" > log 2>&1 || status=$?
    echo "$test: status $status"
    grep -E '^(Tests result|[0-9]+ test)' log
    # For the reader of a failure; standard error is not compared.
    [ "$status" = 0 ] || cat log >&2
done
