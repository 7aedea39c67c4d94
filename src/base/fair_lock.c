#include "base/fair_lock.h"

void yki_fair_lock_init(yki_fair_lock *lock)
{
    *lock = (yki_fair_lock){.asked = 0};
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_cond_init(&lock->changed, NULL);
}

void yki_fair_lock_destroy(yki_fair_lock *lock)
{
    pthread_cond_destroy(&lock->changed);
    pthread_mutex_destroy(&lock->mutex);
}

void yki_fair_lock_take(yki_fair_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    uint64_t own = lock->asked++;
    while (lock->served != own)
        pthread_cond_wait(&lock->changed, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
}

void yki_fair_lock_release(yki_fair_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    lock->served++;
    pthread_cond_broadcast(&lock->changed);
    pthread_mutex_unlock(&lock->mutex);
}
