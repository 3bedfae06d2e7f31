/* random.c -- the functions of arc4random(3) that libevent.a uses, by means of getrandom(2).  glibc has them from 2.36 on; a program
 * that was linked with those would not start on an older system (Ubuntu 22.04), only because of them. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void);
void     arc4random_buf(void *buffer, size_t bytes);

void arc4random_buf(void *buffer, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = getrandom((uint8_t *)buffer + done, bytes - done, 0);
        if (n > 0) done += (size_t)n;
        else if (n == 0 || errno != EINTR) abort();          /* Linux before 3.17: no random numbers that are unpredictable */
    }
}

uint32_t arc4random(void)
{
    uint32_t x;
    arc4random_buf(&x, sizeof x);
    return x;
}
