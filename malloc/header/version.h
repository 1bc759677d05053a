/* ---- Version ---- */

/* The version of this header. */
#define CM_VERSION_MAJOR @MAJOR@
#define CM_VERSION_MINOR @MINOR@
#define CM_VERSION_PATCH @PATCH@

/* The same as one number, which is larger for a later version: 1002003 is 1.2.3. */
#define CM_VERSION (CM_VERSION_MAJOR * 1000000 + CM_VERSION_MINOR * 1000 + CM_VERSION_PATCH)
