# gcc and g++: the same object code with and without the library, from preprocessing to linking.
set -eu

cat > sieve.c <<'END'
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    enum { LIMIT = 200000 };
    char *composite = calloc(LIMIT, 1);
    int count = 0;
    for (long i = 2; i < LIMIT; i++) {
        if (composite[i])
            continue;
        count++;
        for (long j = i * i; j < LIMIT; j += i)
            composite[j] = 1;
    }
    free(composite);
    printf("%d primes\n", count);
    return 0;
}
END

cat > words.cc <<'END'
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

template <int N> struct Tower { using type = std::vector<typename Tower<N - 1>::type>; };
template <> struct Tower<0> { using type = std::string; };

int main() {
    std::ostringstream text;
    for (int i = 0; i < 2000; i++)
        text << "word" << i % 321 << (i % 7 ? ' ' : '\n');
    std::map<std::string, int> counts;
    const std::string all = text.str();
    const std::regex word("[a-z]+[0-9]*1");
    for (std::sregex_iterator at(all.begin(), all.end(), word), end; at != end; ++at)
        counts[at->str()]++;
    std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) { return a.second > b.second; });
    Tower<6>::type tower;
    std::variant<int, std::string> last = sorted.back().first;
    std::cout << sorted.size() << ' ' << sorted.front().first << ' ' << std::get<1>(last) << ' ' << tower.size() << '\n';
}
END

gcc -std=c11 -O2 -Wall -S -o - sieve.c | cksum
gcc -std=c11 -O3 -flto -o sieve sieve.c
./sieve
g++ -std=c++17 -O2 -S -o words.s words.cc
cksum < words.s
g++ -o words words.s
./words
ar rcs libsieve.a sieve.c
objdump -d sieve | tail -n +4 | wc -l
echo 'int main(void) { return missing; }' > wrong.c
gcc -c wrong.c 2>&1 || echo "gcc ended with status $?"
echo 'all done'
