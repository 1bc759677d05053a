/* ---- RCU: read sections, grace periods, deferred frees ---- */

/* Stores `value` into `pointer`, so that readers find the object, with all that was written to it before. */
#define CM_RCU_PUBLISH(pointer, value) __atomic_store_n(&(pointer), (value), __ATOMIC_RELEASE)

/* Loads `pointer`, which an updater may replace. Call it in a read section or under the updaters' lock. */
#define CM_RCU_DEREFERENCE(pointer) __atomic_load_n(&(pointer), __ATOMIC_ACQUIRE)

/* A list that readers walk while an updater changes it: the list's head, and a part of each of its members. Updaters
 * exclude each other. They free a removed member after a grace period. A reader sees each member that is in the list
 * during the whole walk, and may see others. */
typedef struct cm_rcu_list {
    /* Private. */
    struct cm_rcu_list *next;
    /* Private. */
    struct cm_rcu_list *previous;
} cm_rcu_list;

/* Initialises an empty list. */
#define CM_RCU_LIST_INIT(list) {&(list), &(list)}

/* Makes `list` empty. No reader may know it yet. */
static inline void cm_rcu_list_init(cm_rcu_list *list) {
    list->next = list->previous = list;
}

/* Inserts `member` after `before`, which is another member, or the list for its front. */
static inline void cm_rcu_list_add(cm_rcu_list *member, cm_rcu_list *before) {
    member->next = before->next;
    member->previous = before;
    before->next->previous = member;
    CM_RCU_PUBLISH(before->next, member);
}

/* Appends `member` to the end of `list`. */
static inline void cm_rcu_list_add_last(cm_rcu_list *member, cm_rcu_list *list) {
    cm_rcu_list_add(member, list->previous);
}

/* Removes `member` from its list. Readers that have reached it can still walk on. */
static inline void cm_rcu_list_remove(cm_rcu_list *member) {
    member->next->previous = member->previous;
    CM_RCU_PUBLISH(member->previous->next, member->next);
}

/* Replaces `old` by `member`. A reader finds one or the other. */
static inline void cm_rcu_list_replace(cm_rcu_list *old, cm_rcu_list *member) {
    member->next = old->next;
    member->previous = old->previous;
    member->next->previous = member;
    CM_RCU_PUBLISH(member->previous->next, member);
}

/* Returns the object of `type` whose field `part` is `member`. */
#define CM_RCU_LIST_ITEM(type, part, member) ((type *)((char *)(member) - offsetof(type, part)))

/* Loops over a list, in a read section or under the updaters' lock. `item` points to one object of `type` after the
 * other, whose field `part` is a member of `list`. */
#define CM_RCU_LIST_FOR_EACH(type, item, part, list)                                                          \
    for (type *item = CM_RCU_LIST_ITEM(type, part, CM_RCU_DEREFERENCE((list)->next)); &item->part != (list);  \
         item = CM_RCU_LIST_ITEM(type, part, CM_RCU_DEREFERENCE(item->part.next)))
