// Likewise, in C++.
#include <execinfo.h>
#include <fstream>
#include <iostream>

template <typename T> __attribute__((noinline)) void capture(T) {
    void *addresses[64];
    int count = backtrace(addresses, 64);
    for (int i = 0; i < count; i++)
        std::cout << addresses[i] << ' ';
    std::cout << '\n';
}

namespace cache {
struct Store {
    __attribute__((noinline)) void insert(int key) {
        capture(key); // line 17
        __asm__ volatile("");
    }
};
}

int main() {
    cache::Store().insert(1);
    std::cout << std::ifstream("/proc/self/maps").rdbuf();
}
