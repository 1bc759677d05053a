# A C program of some hundred functions, compiled with optimisation, linked, and run.
{
    echo '#include <stdio.h>'
    function=0
    while [ "$function" -lt 150 ]; do
        echo "static unsigned step_$function(unsigned x) {"
        echo "    unsigned table[8] = {x, x + 1, x * 3, x ^ $function, 4, 5, 6, 7};"
        echo "    for (unsigned i = 0; i < (x & 15); i++)"
        echo "        switch ((i + x) % 5) {"
        echo "        case 0: x += table[i & 7]; break;"
        echo "        case 1: x ^= x << 3; break;"
        echo "        case 2: table[i & 7] = x / ($function + 1); break;"
        echo "        default: x -= table[(i + $function) & 7] >> 1;"
        echo "        }"
        echo "    return x;"
        echo "}"
        function=$((function + 1))
    done
    echo 'int main(void) {'
    echo '    unsigned x = 1;'
    function=0
    while [ "$function" -lt 150 ]; do
        echo "    x = step_$function(x + $function);"
        function=$((function + 1))
    done
    # Not echo: some shells' echo would turn the \n into a line's end.
    printf '%s\n' '    printf("%u\n", x);'
    echo '}'
} > steps.c
gcc -O1 -Wall -S -o steps.s steps.c
cksum < steps.s
gcc -O1 -o steps steps.s
./steps
