# make -j2 of a generated project in C: many short processes, jobs at the same time, a rebuild of one part.
set -eu

for i in $(seq 1 40); do
    cat > "part$i.c" <<END
#include "project.h"
int part$i(int x) {
    int sum = 0;
    for (int i = 0; i < x; i++)
        sum += i * $i % 7;
    return sum;
}
END
done
{
    seq 1 40 | sed 's/.*/int part&(int x);/'
} > project.h
{
    echo '#include <stdio.h>'
    echo '#include "project.h"'
    echo 'int main(void) {'
    echo '    long sum = 0;'
    seq 1 40 | sed 's/.*/    sum += part&(&);/'
    printf '%s\n' '    printf("sum %ld\n", sum);'
    echo '    return 0;'
    echo '}'
} > main.c
cat > Makefile <<'END'
SOURCES := $(sort $(wildcard *.c))
OBJECTS := $(SOURCES:.c=.o)
CFLAGS := -O1 -Wall

project: $(OBJECTS)
	$(CC) -o $@ $^

%.o: %.c project.h
	$(CC) $(CFLAGS) -c -o $@ $<
	@printf 'made %s\n' '$(subst .c,,$<)' | tr a-z A-Z

.PHONY: clean
clean:
	rm -f $(OBJECTS) project
END

# Jobs end in any order; what they print is the same.
make -j2 CC=gcc | sort
./project
touch part7.c
make -j2 CC=gcc | sort
make -q CC=gcc && echo "nothing left to make"
make -n clean CC=gcc
make absent CC=gcc 2>&1 || echo "make ended with status $?"
echo 'all done'
