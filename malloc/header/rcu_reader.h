/* ---- RCU: registered readers ----
 *
 * A registered reader is online or offline. While it is online, objects that it finds by CM_RCU_DEREFERENCE stay until
 * its next checkpoint, and grace periods wait for that checkpoint. A thread may have several readers.
 *
 * Threads          Only the thread that registered a reader may pass it to a function.
 * Signal handlers  They must not call these functions.
 * After fork       The child has the readers of the thread that forked, and no others.
 */

/* A registered reader. */
typedef struct cm_rcu_reader {
    /* Private. */
    uint32_t due;
    /* Private. */
    uint32_t depth;
} cm_rcu_reader;

void cm_rcu_checkpoint_due(cm_rcu_reader *reader) CM_NOTHROW CM_NONNULL;

/* Declares that the thread has left all sections of `reader`, and reports it if the policy demands that. Otherwise it
 * costs one load. */
static inline void cm_rcu_checkpoint(cm_rcu_reader *reader) {
    if (__atomic_load_n(&reader->due, __ATOMIC_RELAXED) != 0)
        cm_rcu_checkpoint_due(reader);
}

/* Opens a section of a kickable reader. Sections may nest. A cooperative reader needs no sections: it is in one
 * whenever it is online and not at a checkpoint. */
static inline void cm_rcu_reader_lock(cm_rcu_reader *reader) {
    __atomic_store_n(&reader->depth, __atomic_load_n(&reader->depth, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Ends the innermost section of a kickable reader. */
static inline void cm_rcu_reader_unlock(cm_rcu_reader *reader) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint32_t depth = __atomic_load_n(&reader->depth, __ATOMIC_RELAXED) - 1;
    __atomic_store_n(&reader->depth, depth, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (depth == 0 && (__atomic_load_n(&reader->due, __ATOMIC_RELAXED) & 1) != 0)
        cm_rcu_checkpoint_due(reader);
}
