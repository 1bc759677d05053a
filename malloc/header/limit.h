/* ---- Limits of the process ----
 *
 * The process as one group. *Held* memory is that of spans and large blocks in use, and dirty memory that is kept for
 * reuse. It never exceeds the hard limit. The settings `limit` and `limit.soft` set both limits at the start.
 */
