/* See callers.h. A thread that ends leaves the list, by the destructor of a key. */
#include "comm/job/callers.h"

#include <pthread.h>
#include <stddef.h>

_Thread_local yki_caller yki_this_caller;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static yki_caller *first;
static bool incomplete; /* the end of a thread would not be noticed */

static void leave(void *argument)
{
    yki_caller *caller = argument;
    pthread_mutex_lock(&lock);
    *caller->link = caller->next;
    if (caller->next)
        caller->next->link = caller->link;
    caller->known = false;
    pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
    incomplete = pthread_key_create(&key, leave) != 0;
}

void yki_caller_enter(void)
{
    yki_caller *caller = &yki_this_caller;
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    caller->known = true;
    if (!incomplete && pthread_setspecific(key, caller) == 0) {
        caller->next = first;
        caller->link = &first;
        if (first)
            first->link = &caller->next;
        first = caller;
    } else {
        incomplete = true;
    }
    pthread_mutex_unlock(&lock);
}

void yki_caller_works(void)
{
    yki_this_caller.known = yki_this_caller.works = true;
}

const yki_caller *yki_caller_self(void)
{
    return yki_this_caller.works ? NULL : &yki_this_caller;
}

bool yki_callers_all(bool (*waits)(const void *context, const yki_caller *caller),
                     const void *context)
{
    pthread_mutex_lock(&lock);
    bool all = !incomplete;
    for (const yki_caller *at = first; at && all; at = at->next)
        all = waits(context, at);
    pthread_mutex_unlock(&lock);
    return all;
}
