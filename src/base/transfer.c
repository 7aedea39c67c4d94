/* See transfer.h. */
#define _GNU_SOURCE
#include "base/transfer.h"

#include <pthread.h>
#include <sys/socket.h>

static curl_socket_t on_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)user, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void initialise_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

CURL *yki_transfer_create(const char *url, long connect_s, char reason[CURL_ERROR_SIZE])
{
    pthread_once(&curl_once, initialise_curl);
    CURL *curl = curl_easy_init();
    if (!curl)
        return NULL;
    reason[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "yoke");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, connect_s);
    return curl;
}
