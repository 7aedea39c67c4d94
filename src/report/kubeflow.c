/*
 * The status of a TrainJob of Kubeflow Trainer 2: progress, remaining time and metrics, as its
 * controller takes them from programs of any language (github.com/kubeflow/trainer,
 * docs/user-guides/trainjob-progress.md). The caller leaves records, and a thread sends what has
 * changed.
 */
#define _GNU_SOURCE
#include <yoke/report.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "report/kubeflow_post.h"

static const double INTERVAL_S = 5; /* the controller asks for no shorter one */

enum { MAX_STATUS = 1024 };

/* What is known of the run. */
typedef struct news {
    yk_step_record step;   /* step.step: 0 before the first one */
    yk_epoch_record epoch; /* epoch.epoch: likewise */
    bool finished;
} news;

struct yk_kubeflow {
    yki_kubeflow_server server;
    int64_t steps;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    news news;
    bool has_news, ending; /* has_news: they have not been sent */
    int64_t first_step;    /* of this run, and when it was done: it prepares the kernels */
    double first_s;
    bool warned; /* the thread's: that nothing can be sent at present */
};

/* ---- the status ------------------------------------------------------------------------------ */

/* JSON that is built up in parts; what does not fit is left out. */
typedef struct text {
    char bytes[MAX_STATUS];
    size_t length;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->bytes + t->length, sizeof t->bytes - t->length, format, arguments);
    va_end(arguments);
    t->length += strlen(t->bytes + t->length);
}

/* Metrics are texts, which may say NaN. */
static void add_metric(text *t, const char *name, double value)
{
    add(t, "{\"name\":\"%s\",\"value\":\"%.6g\"},", name, value);
}

static void add_metrics(text *t, const news *n)
{
    if (n->step.step > 0) {
        add_metric(t, "loss", n->step.loss);
        add_metric(t, "learning_rate", n->step.lr);
        add_metric(t, "images_per_second", n->step.images_per_s);
    }
    if (n->epoch.epoch > 0) {
        add_metric(t, "train_loss", n->epoch.train_loss);
        add_metric(t, "validation_loss", n->epoch.val_loss);
        add_metric(t, "validation_accuracy", n->epoch.val_accuracy);
    }
}

/* 100 is left to the end, which an evaluation and a checkpoint come before. */
static int percentage(const yk_kubeflow *k, const news *n)
{
    const double share = (double)n->step.step / (double)k->steps;
    return n->finished ? 100 : share < 0.99 ? (int)(100 * share) : 99;
}

static void add_remaining(text *t, const yk_kubeflow *k, const news *n)
{
    const int64_t done = n->step.step - k->first_step;
    if (n->finished)
        add(t, "\"estimatedRemainingSeconds\":0,");
    else if (done > 0)
        add(t, "\"estimatedRemainingSeconds\":%.0f,",
            (yki_now() - k->first_s) / (double)done * (double)(k->steps - n->step.step));
}

static void write_status(text *t, const yk_kubeflow *k, const news *n)
{
    char now[32];
    struct tm date;
    time_t clock = time(NULL);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&clock, &date));
    void *before = yki_c_locale_begin();
    t->length = 0;
    add(t, "{\"trainerStatus\":{\"progressPercentage\":%d,", percentage(k, n));
    add_remaining(t, k, n);
    add(t, "\"metrics\":[");
    add_metrics(t, n);
    t->length -= t->bytes[t->length - 1] == ',';
    add(t, "],\"lastUpdatedTime\":\"%s\"}}", now);
    yki_c_locale_end(before);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void send(yk_kubeflow *k, const char *json)
{
    bool fine = yki_kubeflow_post(&k->server, json) == YK_OK;
    if (!fine && !k->warned)
        YKI_WARN("Kubeflow does not learn how far training is: %s", yki_error_text());
    k->warned = !fine;
}

/* Waits until there are news, and INTERVAL_S have passed since the last ones; false when there are
 * no more. */
static bool await_news(yk_kubeflow *k, double since_s)
{
    const double at = since_s + INTERVAL_S;
    const struct timespec until = {(time_t)at, (long)((at - floor(at)) * 1e9)};
    while (!k->ending && yki_now() < at)
        pthread_cond_timedwait(&k->changed, &k->lock, &until);
    while (!k->ending && !k->has_news)
        pthread_cond_wait(&k->changed, &k->lock);
    return k->has_news;
}

static void *report(void *argument)
{
    yk_kubeflow *k = argument;
    text status;
    double sent_s = yki_now() - INTERVAL_S;
    pthread_mutex_lock(&k->lock);
    while (await_news(k, sent_s)) {
        write_status(&status, k, &k->news);
        k->has_news = false;
        pthread_mutex_unlock(&k->lock);
        send(k, status.bytes);
        sent_s = yki_now();
        pthread_mutex_lock(&k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void release(yk_kubeflow *k)
{
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free((char *)(uintptr_t)k->server.url);
    free((char *)(uintptr_t)k->server.token);
    free((char *)(uintptr_t)k->server.ca);
    free(k);
}

yk_status yk_kubeflow_open(yk_kubeflow **kubeflow, int64_t steps)
{
    YKI_NOT_NULL(kubeflow);
    *kubeflow = NULL;
    if (steps < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_kubeflow_open: steps is %" PRId64 ", expected 1 or more", steps);
    const char *url = getenv("KUBEFLOW_TRAINER_SERVER_URL"),
               *token = getenv("KUBEFLOW_TRAINER_SERVER_TOKEN"),
               *ca = getenv("KUBEFLOW_TRAINER_SERVER_CA_CERT");
    if (!url || !*url || !token || !ca)
        return YK_OK;
    yk_kubeflow *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "the reports to Kubeflow");
    k->server = (yki_kubeflow_server){yki_strdup(url), yki_strdup(token), yki_strdup(ca)};
    k->steps = steps;
    pthread_mutex_init(&k->lock, NULL);
    yki_cond_init(&k->changed);
    bool copied = k->server.url && k->server.token && k->server.ca;
    if (!copied || yki_thread_create(&k->thread, "yoke-kubeflow", NULL, report, k) != 0) {
        release(k);
        return yki_error(YK_ERROR_OUT_OF_MEMORY,
                         "no memory, or no thread, for the reports to Kubeflow");
    }
    *kubeflow = k;
    return YK_OK;
}

static void begin_news(yk_kubeflow *k)
{
    pthread_mutex_lock(&k->lock);
    k->has_news = true;
}

static void end_news(yk_kubeflow *k)
{
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

void yk_kubeflow_step(yk_kubeflow *kubeflow, const yk_step_record *record)
{
    if (!kubeflow || !record)
        return;
    begin_news(kubeflow);
    if (kubeflow->news.step.step == 0) {
        kubeflow->first_step = record->step;
        kubeflow->first_s = yki_now();
    }
    kubeflow->news.step = *record;
    end_news(kubeflow);
}

void yk_kubeflow_epoch(yk_kubeflow *kubeflow, const yk_epoch_record *record)
{
    if (!kubeflow || !record)
        return;
    begin_news(kubeflow);
    kubeflow->news.epoch = *record;
    end_news(kubeflow);
}

void yk_kubeflow_finish(yk_kubeflow *kubeflow)
{
    if (!kubeflow)
        return;
    begin_news(kubeflow);
    kubeflow->news.finished = true;
    end_news(kubeflow);
}

void yk_kubeflow_close(yk_kubeflow *kubeflow)
{
    if (!kubeflow)
        return;
    pthread_mutex_lock(&kubeflow->lock);
    kubeflow->ending = true;
    pthread_cond_signal(&kubeflow->changed);
    pthread_mutex_unlock(&kubeflow->lock);
    pthread_join(kubeflow->thread, NULL);
    release(kubeflow);
}
