# gcc and g++: the same object code with and without the library, from preprocessing to linking. They compile programs
# of these tests, which then run, too.
sources=$(dirname "$0")/../c

gcc -std=c11 -O2 -S -o - "$sources/abi.c" | cksum
gcc -std=c11 -O3 -flto -w -o abi "$sources/abi.c"
./abi zero
g++ -std=c++17 -O2 -S -o cxx.s "$sources/cxx.cc"
cksum < cxx.s
g++ -pthread -o cxx cxx.s
./cxx operators
ar rcs libabi.a abi
objdump -d abi | tail -n +4 | wc -l
echo 'int main(void) { return missing; }' > wrong.c
gcc -c wrong.c 2>&1 || echo "gcc ended with status $?"
