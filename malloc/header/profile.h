/* ---- Heap profile ----
 *
 * It tells the call sites that allocate and hold memory, from samples. `commensal profile` and pprof read it. Programs
 * that do nothing of this can be profiled as well: by `commensal run --profile`, by the settings `profile` and
 * `profile.file`, and, while they run, by `commensal profile PID`.
 */
