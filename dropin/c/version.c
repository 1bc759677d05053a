/* The version of the library is that of the header. */
#include "check.h"
#include <commensal.h>

static void check_same(void) {
    CHECK(cm_version() == CM_VERSION, "library %u, header %u", (unsigned)cm_version(), (unsigned)CM_VERSION);
}

CHECKS({"same", check_same})
