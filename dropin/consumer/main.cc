/* Counts and allocates with the library that CMake found. */
#include <commensal.hpp>
#include <iostream>
#include <memory_resource>
#include <string>

static CM_COUNTERS(2) counters = CM_COUNTERS_INIT(2);

int main() {
    /* ANCHOR: group */
    commensal::group tenant("tenant", 1 << 20);
    commensal::group_resource memory(tenant);
    std::pmr::string text(1000, 'x', &memory);
    /* ANCHOR_END: group */
    cm_counters_add(&counters.set, 1, static_cast<int64_t>(text.size()));
    std::cout << "C++ counted " << cm_counters_sum(&counters.set, 1) << std::endl;
    return 0;
}
