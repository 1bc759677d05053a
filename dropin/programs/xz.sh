# xz -T2: two threads with large buffers; the blocks are small enough that both have work.

awk 'BEGIN { for (i = 0; i < 250000; i++) printf "line %d %d %s\n", i, i * 7919 % 100003, i % 3 ? "odd" : "even" }' > text
cksum < text
xz -T2 -3 --block-size=1MiB -k -c text > text.xz
cksum < text.xz
xz -T2 -d -c text.xz | cmp - text && echo "equal"
xz -T2 -1 -c text | xz -d -T1 | cksum
xz --robot --list text.xz | tail -n 1 | cut -f 2-5
head -c 1000 text.xz > cut.xz
{ xz -d -c cut.xz > rest; } 2>&1 || echo "xz ended with status $?"
