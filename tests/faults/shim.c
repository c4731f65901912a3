/* Faults of a file system and of a clock, from outside: preloaded into ranks, it counts what is done to files below a folder, over
 * all processes, and at the n-th event kills the process, lets the call fail, or waits.
 *
 *   FAULT_PATH    the folder, absolute; what is elsewhere is let through
 *   FAULT_EVENTS  a file of eight bytes or more that all processes map: the number of events so far
 *   FAULT_AT      the event that the fault comes at, from 1; 0 is none of them
 *   FAULT_LAST    the last event that it comes at; without, the same
 *   FAULT_DO      kill: before the call; half: after half of a write; or the errno of a call that fails; or delay
 *   FAULT_MS      how long to wait
 *   FAULT_CLOCK   seconds that the time of day jumps forward and back, every hundred times that it is asked for
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static const char *folder;
static atomic_ullong *events;
static unsigned long long first, last;
static const char *deed = "";
static long wait_ms, jump;

__attribute__((constructor)) static void begin(void) {
    folder = getenv("FAULT_PATH");
    const char *at = getenv("FAULT_AT"), *until = getenv("FAULT_LAST"), *file = getenv("FAULT_EVENTS");
    const char *what = getenv("FAULT_DO"), *ms = getenv("FAULT_MS"), *seconds = getenv("FAULT_CLOCK");
    first = at ? strtoull(at, NULL, 10) : 0;
    last = until ? strtoull(until, NULL, 10) : first;
    if (what) deed = what;
    wait_ms = ms ? atol(ms) : 0;
    jump = seconds ? atol(seconds) : 0;
    if (file) {
        int fd = open(file, O_RDWR | O_CLOEXEC);
        if (fd >= 0) {
            void *map = mmap(NULL, sizeof *events, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (map != MAP_FAILED) events = map;
            close(fd);
        }
    }
}

static int below(const char *path) {
    size_t n = folder ? strlen(folder) : 0;
    return n > 0 && strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int fd_below(int fd) {
    char link[64], path[PATH_MAX];
    if (!folder || !events || fd < 3) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}

static int name_below(int at, const char *name) {
    char path[2 * PATH_MAX], link[64];
    if (!folder || !events || !name) return 0;
    if (name[0] == '/') return below(name);
    ssize_t n;
    if (at == AT_FDCWD) {
        if (!getcwd(path, PATH_MAX)) return 0;
        n = strlen(path);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        n = readlink(link, path, PATH_MAX - 1);
        if (n < 0) return 0;
    }
    snprintf(path + n, sizeof path - n, "/%s", name);
    return below(path);
}

/* What an event is met with: 0 to go on, 1 for half a write and then the end, -1 to fail with errno set. */
static int event(int is_write) {
    unsigned long long n = atomic_fetch_add(events, 1) + 1;
    if (first == 0 || n < first || n > last) return 0;
    if (strcmp(deed, "kill") == 0 || (strcmp(deed, "half") == 0 && !is_write)) raise(SIGKILL);
    if (strcmp(deed, "half") == 0) return 1;
    if (strcmp(deed, "delay") == 0) {
        struct timespec t = {wait_ms / 1000, wait_ms % 1000 * 1000000};
        nanosleep(&t, NULL);
        return 0;
    }
    errno = atoi(deed);
    return -1;
}

ssize_t write(int fd, const void *bytes, size_t n) {
    int met = fd_below(fd) ? event(1) : 0;
    if (met < 0) return -1;
    ssize_t done = REAL(write)(fd, bytes, met ? n / 2 : n);
    if (met) raise(SIGKILL);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
    int met = fd_below(fd) ? event(1) : 0;
    if (met < 0) return -1;
    ssize_t done = REAL(pwrite)(fd, bytes, met ? n / 2 : n, at);
    if (met) raise(SIGKILL);
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) { return pwrite(fd, bytes, n, at); }

ssize_t writev(int fd, const struct iovec *parts, int n) {
    int met = fd_below(fd) ? event(1) : 0;
    if (met < 0) return -1;
    if (met) {
        if (n > 0) REAL(write)(fd, parts[0].iov_base, parts[0].iov_len / 2);
        raise(SIGKILL);
    }
    return REAL(writev)(fd, parts, n);
}

#define BY_FD(kind, name, declared, used)                                                                                       \
    kind name declared { return fd_below(fd) && event(0) < 0 ? -1 : REAL(name) used; }
BY_FD(int, fsync, (int fd), (fd))
BY_FD(int, fdatasync, (int fd), (fd))
BY_FD(int, ftruncate, (int fd, off_t n), (fd, n))
BY_FD(int, ftruncate64, (int fd, off64_t n), (fd, n))

#define BY_NAME(name, declared, at, path, used)                                                                                 \
    int name declared { return name_below(at, path) && event(0) < 0 ? -1 : REAL(name) used; }
BY_NAME(rename, (const char *old, const char *new), AT_FDCWD, new, (old, new))
BY_NAME(renameat, (int a, const char *old, int b, const char *new), b, new, (a, old, b, new))
BY_NAME(renameat2, (int a, const char *old, int b, const char *new, unsigned how), b, new, (a, old, b, new, how))
BY_NAME(unlink, (const char *path), AT_FDCWD, path, (path))
BY_NAME(unlinkat, (int at, const char *path, int how), at, path, (at, path, how))
BY_NAME(rmdir, (const char *path), AT_FDCWD, path, (path))
BY_NAME(mkdir, (const char *path, mode_t mode), AT_FDCWD, path, (path, mode))
BY_NAME(mkdirat, (int at, const char *path, mode_t mode), at, path, (at, path, mode))

/* A file that comes into being is an event, one that is only opened is not. */
#define OPENING(name, declared, at, path, how, used)                                                                            \
    int name declared {                                                                                                         \
        mode_t mode = 0;                                                                                                        \
        if (how & (O_CREAT | O_TMPFILE)) {                                                                                      \
            va_list rest;                                                                                                       \
            va_start(rest, how);                                                                                                \
            mode = va_arg(rest, mode_t);                                                                                        \
            va_end(rest);                                                                                                       \
        }                                                                                                                       \
        if ((how & O_CREAT) && name_below(at, path) && event(0) < 0) return -1;                                                 \
        return REAL(name) used;                                                                                                 \
    }
OPENING(open, (const char *path, int how, ...), AT_FDCWD, path, how, (path, how, mode))
OPENING(open64, (const char *path, int how, ...), AT_FDCWD, path, how, (path, how, mode))
OPENING(openat, (int at, const char *path, int how, ...), at, path, how, (at, path, how, mode))
OPENING(openat64, (int at, const char *path, int how, ...), at, path, how, (at, path, how, mode))

static long jumped(void) {
    static atomic_ulong asked;
    return jump && atomic_fetch_add(&asked, 1) / 100 % 2 ? jump : 0;
}

int clock_gettime(clockid_t which, struct timespec *t) {
    int done = REAL(clock_gettime)(which, t);
    if (done == 0 && which == CLOCK_REALTIME) t->tv_sec += jumped();
    return done;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    int done = REAL(gettimeofday)(t, zone);
    if (done == 0) t->tv_sec += jumped();
    return done;
}

time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
