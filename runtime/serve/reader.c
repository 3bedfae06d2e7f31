/* reader.c -- a thread that reads requests: their JSON, templates, tokens and grammars, which can take long, while HTTP continues. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server.h"

struct queue { struct request *first, **last; };

struct reader {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct queue given, read;                /* under the mutex */
    bool   stopping;                         /* under the mutex */
    int    wake_fd;
};

static void put(struct queue *q, struct request *x)
{
    x->next_read = NULL;
    *q->last = x;
    q->last = &x->next_read;
}

static void clear(struct queue *q) { *q = (struct queue){ NULL, &q->first }; }

/* The next request; NULL: the server ends. */
static struct request *next(struct reader *r)
{
    pthread_mutex_lock(&r->mutex);
    while (!r->stopping && !r->given.first) pthread_cond_wait(&r->work, &r->mutex);
    struct request *x = r->stopping ? NULL : r->given.first;
    if (x) r->given.first = x->next_read;
    if (!r->given.first) clear(&r->given);
    pthread_mutex_unlock(&r->mutex);
    return x;
}

static void *thread_main(void *reader)
{
    struct reader *r = reader;
    const uint64_t one = 1;
    for (struct request *x; (x = next(r));) {
        if (!x->unwanted) x->read(x);
        pthread_mutex_lock(&r->mutex);
        put(&r->read, x);
        pthread_mutex_unlock(&r->mutex);
        if (write(r->wake_fd, &one, sizeof one) < 0) continue;          /* full: the thread of HTTP is awake */
    }
    return NULL;
}

enum forge_status reader_open(struct server *s, struct forge_error *error)
{
    struct reader *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, FORGE_NO_MEMORY, "out of memory for the server");
    r->wake_fd = s->wake_fd;
    clear(&r->given);
    clear(&r->read);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->work, NULL);
    const int code = pthread_create(&r->thread, NULL, thread_main, r);
    if (code == 0) { s->reader = r; return FORGE_OK; }
    pthread_cond_destroy(&r->work);
    pthread_mutex_destroy(&r->mutex);
    free(r);
    return error_set(error, FORGE_FAILED, "cannot start a thread: %s", strerror(code));
}

void reader_close(struct server *s)
{
    struct reader *r = s->reader;
    if (!r) return;
    pthread_mutex_lock(&r->mutex);
    r->stopping = true;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->work);
    pthread_mutex_destroy(&r->mutex);
    free(r);
    s->reader = NULL;
}

void reader_give(struct reader *r, struct request *x)
{
    pthread_mutex_lock(&r->mutex);
    put(&r->given, x);
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->mutex);
}

struct request *reader_take(struct reader *r)
{
    pthread_mutex_lock(&r->mutex);
    struct request *first = r->read.first;
    clear(&r->read);
    pthread_mutex_unlock(&r->mutex);
    return first;
}
