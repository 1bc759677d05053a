/* All forms of C++'s operators new and delete. */
#ifndef FORMS_H
#define FORMS_H

#include "check.h"

#include <functional>
#include <new>
#include <vector>

struct Form {
    const char *name;
    std::size_t alignment;
    std::function<void *(std::size_t)> get;
    std::function<void(void *, std::size_t)> drop;
};

/* What is written in the place of `get` and `drop` has `n` bytes, an alignment `a` and a block `p`. */
#define FORM(name, get, drop)                                                                                          \
    {name, bytes, [a](std::size_t n) { return (void)a, get; }, [a](void *p, std::size_t n) { (void)a, (void)n, drop; }}

inline std::vector<Form> forms() {
    using std::nothrow;
    std::vector<Form> all;
    const auto add = [&all](std::vector<Form> more) { all.insert(all.end(), more.begin(), more.end()); };
    std::size_t bytes = 16;
    auto a = std::align_val_t(bytes);
    add({FORM("new", ::operator new(n), ::operator delete(p)),
         FORM("new sized", ::operator new(n), ::operator delete(p, n)),
         FORM("new[]", ::operator new[](n), ::operator delete[](p)),
         FORM("new[] sized", ::operator new[](n), ::operator delete[](p, n)),
         FORM("new nothrow", ::operator new(n, nothrow), ::operator delete(p, nothrow)),
         FORM("new[] nothrow", ::operator new[](n, nothrow), ::operator delete[](p, nothrow))});
    for (; bytes <= 65536; bytes *= 4) {
        a = std::align_val_t(bytes);
        add({FORM("new aligned", ::operator new(n, a), ::operator delete(p, a)),
             FORM("new aligned, sized", ::operator new(n, a), ::operator delete(p, n, a)),
             FORM("new[] aligned", ::operator new[](n, a), ::operator delete[](p, a)),
             FORM("new[] aligned, sized", ::operator new[](n, a), ::operator delete[](p, n, a)),
             FORM("new aligned, nothrow", ::operator new(n, a, nothrow), ::operator delete(p, a, nothrow)),
             FORM("new[] aligned, nothrow", ::operator new[](n, a, nothrow), ::operator delete[](p, a, nothrow))});
    }
    return all;
}

#endif
