# sort --parallel=2: in memory and, with a small buffer, in merges of files and a compressor at work.

awk 'BEGIN { x = 1; for (i = 0; i < 150000; i++) { x = (x * 16807) % 2147483647; print x, i } }' > numbers
sort --parallel=2 -n numbers | cksum
sort --parallel=2 -S 1M -k2,2nr -k1,1 numbers | cksum
sort --parallel=2 -S 512K --batch-size=4 --compress-program=gzip numbers | cksum
sort --parallel=2 -u -k1,1.3 numbers | cksum
sort --parallel=2 -R --random-source=numbers numbers | cksum
sort --parallel=2 -c numbers 2>&1 || echo "sort ended with status $?"
