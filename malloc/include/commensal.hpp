/* Commensal for C++17: owners of what commensal.h makes and ends, and memory resources for std::pmr.
 *
 *     commensal::group tenant("tenant", 1 << 20);
 *     commensal::group_resource memory(tenant);
 *     std::pmr::vector<int> numbers(&memory);                 // std::bad_alloc when the tenant is full
 *     {
 *         commensal::group_scope inside(tenant);
 *         std::string text(1000, 'x');                        // this, too
 *     }
 *
 * The comments in commensal.h hold here, too: which thread may call a function, signal handlers, time, fork. An exception
 * is thrown only where a comment says so. All of this is inline; a program that includes the header links the library as
 * for C. Nothing here calls the new-handler.
 */

#ifndef COMMENSAL_HPP
#define COMMENSAL_HPP

#include "commensal.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <memory_resource>
#include <new>
#include <system_error>
#include <utility>

namespace commensal {

/* Throws std::bad_alloc for ENOMEM, or std::system_error. */
[[noreturn]] inline void throw_error(int error, const char *what) {
    if (error == ENOMEM)
        throw std::bad_alloc();
    throw std::system_error(error, std::generic_category(), what);
}

/* A memory group that this object owns. One that was moved from owns none: it may only be destroyed or assigned to. */
class group {
public:
    /* Creates a group: see cm_group_create. `limit` is in bytes; 0: no limit. Throws std::bad_alloc, or std::system_error
     * with EINVAL if the name is refused. */
    explicit group(const char *name, std::uint64_t limit = 0, group *parent = nullptr)
        : own(cm_group_create(name, parent != nullptr ? parent->own : nullptr, limit)) {
        if (own == nullptr)
            throw_error(errno, "commensal::group");
    }

    /* Takes the group over. What was allocated in it stays. */
    group(group &&other) noexcept : own(std::exchange(other.own, nullptr)) {}

    /* Exchanges the groups. */
    group &operator=(group &&other) noexcept {
        std::swap(own, other.own);
        return *this;
    }

    /* Destroys the group, and frees all that was allocated in it. Like that of a std::thread that was not joined, it ends
     * the program if it comes too early: while a thread is inside, or the group has children. */
    ~group() {
        if (own != nullptr && cm_group_destroy(own) != 0)
            std::terminate();
    }

    /* Returns the group for the functions of commensal.h. It stays owned. */
    cm_group *get() const noexcept { return own; }

    /* Sets the limit in bytes: see cm_group_set_limit. 0: no limit. */
    void set_limit(std::uint64_t limit) noexcept { cm_group_set_limit(own, limit); }

    /* Returns the statistics: see cm_group_stats_read. */
    cm_group_stats stats() const noexcept {
        cm_group_stats stats;
        cm_group_stats_read(own, &stats);
        return stats;
    }

private:
    cm_group *own;
};

/* The stay of a thread in a group, from here to the end of the block. Objects that are made inside must not live longer
 * than the group. */
class group_scope {
public:
    /* Throws std::system_error with EBUSY if another thread is destroying the group. */
    explicit group_scope(const group &entered) {
        if (cm_group_enter(entered.get(), &entry) != 0)
            throw_error(errno, "commensal::group_scope");
    }

    group_scope(const group_scope &) = delete;
    group_scope &operator=(const group_scope &) = delete;

    /* Leaves the group: see cm_group_leave. */
    ~group_scope() { cm_group_leave(&entry); }

private:
    cm_group_entry entry;
};

/* A memory resource that allocates in a group, without entering it. The group must live longer than it and all that was
 * allocated from it. It is equal to other resources of the same group only: containers of different groups copy their
 * contents where they could move them. */
class group_resource final : public std::pmr::memory_resource {
public:
    /* Makes a resource of the group. It allocates nothing. */
    explicit group_resource(const group &charged) noexcept : own(charged.get()) {}

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *block = cm_group_aligned_alloc(own, alignment, bytes);
        if (block == nullptr)
            throw std::bad_alloc();
        return block;
    }

    void do_deallocate(void *block, std::size_t, std::size_t) override { std::free(block); }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        const auto *same = dynamic_cast<const group_resource *>(&other);
        return same != nullptr && same->own == own;
    }

    cm_group *own;
};

/* A memory resource that allocates by malloc: in the group that the thread is in, if it is in one. */
class heap_resource final : public std::pmr::memory_resource {
private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *block = alignment <= alignof(std::max_align_t) ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
        if (block == nullptr)
            throw std::bad_alloc();
        return block;
    }

    void do_deallocate(void *block, std::size_t, std::size_t) override { std::free(block); }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return dynamic_cast<const heap_resource *>(&other) != nullptr;
    }
};

/* A read section of RCU, from here to the end of the block, which the same thread reaches. */
class rcu_section {
public:
    /* Opens the section: see cm_rcu_read_lock. */
    rcu_section() noexcept : own(cm_rcu_read_lock()) {}
    rcu_section(const rcu_section &) = delete;
    rcu_section &operator=(const rcu_section &) = delete;
    /* Ends it. */
    ~rcu_section() { cm_rcu_read_unlock(own); }

private:
    cm_rcu_section own;
};

/* A cache of objects of one type. Each object is constructed when it is made, and destroyed when its owner ends. */
template <typename T> class object_cache {
public:
    /* Gives an object back. */
    class deleter {
    public:
        /* Destroys the object, and frees its memory into the cache. */
        void operator()(T *object) const noexcept {
            object->~T();
            cm_cache_free(from, object);
        }

    private:
        friend object_cache;
        explicit deleter(cm_cache *cache) noexcept : from(cache) {}
        cm_cache *from;
    };

    /* The owner of an object. It must end before the cache does. */
    using pointer = std::unique_ptr<T, deleter>;

    /* Creates a cache: see cm_cache_create. Throws std::bad_alloc, or std::system_error with EINVAL if the name is refused
     * or the type is larger than 131,072 bytes. */
    explicit object_cache(const char *name) : own(cm_cache_create(name, sizeof(T), alignof(T), nullptr)) {
        if (own == nullptr)
            throw_error(errno, "commensal::object_cache");
    }

    object_cache(const object_cache &) = delete;
    object_cache &operator=(const object_cache &) = delete;

    /* Destroys the cache. Ends the program if objects are alive. */
    ~object_cache() {
        if (cm_cache_destroy(own) != 0)
            std::terminate();
    }

    /* Makes an object. Throws std::bad_alloc, or the exception of its constructor. */
    template <typename... Arguments> pointer make(Arguments &&...arguments) {
        void *place = cm_cache_alloc(own);
        if (place == nullptr)
            throw std::bad_alloc();
        try {
            return pointer(::new (place) T(std::forward<Arguments>(arguments)...), deleter(own));
        } catch (...) {
            cm_cache_free(own, place);
            throw;
        }
    }

    /* Returns the cache for the functions of commensal.h. It stays owned. */
    cm_cache *get() const noexcept { return own; }

private:
    cm_cache *own;
};

} // namespace commensal

#endif /* COMMENSAL_HPP */
