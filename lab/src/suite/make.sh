# A C project that is compiled anew by two compilers at a time: files of functions that call each other and the next file's.
unset MAKEFLAGS
files=8 functions=16
if [ "$1" = run ]; then
    exec "$PROGRAM" -B -s -j2
fi

name() {
    echo "part$(($1 % files))_$2(long guests, long seats)"
}

{
    printf 'objects := $(patsubst %%.c,%%.o,$(wildcard *.c))\n'
    printf 'guests: $(objects)\n\tcc -o $@ $(objects)\n%%.o: %%.c\n\tcc -O1 -c -o $@ $<\n'
} > Makefile
file=0
while [ "$file" -lt "$files" ]; do
    {
        printf '#include <stdio.h>\nlong %s;\n' "$(name $((file + 1)) 0)"
        function=$functions next=part$(((file + 1) % files))_0
        while [ "$function" -gt 0 ]; do
            function=$((function - 1))
            cat <<END
long $(name $file $function) {
    char line[64];
    long sum = $function;
    for (long guest = 0; guest < guests; guest++) {
        if (guest % (seats + 1) == $function) sum += snprintf(line, sizeof line, "%ld of %ld", guest, seats);
        else sum ^= guest << ($function % 7);
    }
    return guests > $file ? sum + $next(guests / 2, seats + 1) : sum;
}
END
            next=part${file}_$function
        done
        if [ "$file" = 0 ]; then
            echo 'int main(void) { return part0_0(1000, 3) == 0; }'
        fi
    } > "part$file.c"
    file=$((file + 1))
done
