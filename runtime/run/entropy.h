/* entropy.h -- an unpredictable number from the system, or from the clock if the system has none yet. */
#ifndef FORGE_ENTROPY_H
#define FORGE_ENTROPY_H
#include <stdint.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t entropy(void)
{
    uint64_t number;
    struct timespec t;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number) return number;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)t.tv_sec ^ (uint64_t)getpid() << 32;
}
#endif
