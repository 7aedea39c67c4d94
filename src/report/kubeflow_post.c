/* See kubeflow_post.h. */
#define _GNU_SOURCE
#include "report/kubeflow_post.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/transfer.h"

enum { TIMEOUT_S = 5, MAX_TOKEN = 16384 };

/* "Authorization: Bearer TOKEN", with what the file has at present. */
static yk_status read_token(char header[MAX_TOKEN], const char *path)
{
    int length = snprintf(header, MAX_TOKEN, "Authorization: Bearer ");
    FILE *file = fopen(path, "re");
    if (!file)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    size_t read = fread(header + length, 1, (size_t)(MAX_TOKEN - 1 - length), file);
    fclose(file);
    header[(size_t)length + read] = '\0';
    header[strcspn(header, "\r\n")] = '\0';
    return YK_OK;
}

/* The answer repeats what was sent. */
static size_t on_answer(const char *data, size_t one, size_t count, void *user)
{
    (void)data, (void)user;
    return one * count;
}

/* A file, for one, has nobody who answers: curl would read it and call that a success. */
static void allow_http_alone(CURL *curl)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static CURLcode post(const yki_kubeflow_server *server, const char *json,
                     struct curl_slist *headers, char reason[CURL_ERROR_SIZE])
{
    CURL *curl = yki_transfer_create(server->url, TIMEOUT_S, reason);
    if (!curl)
        return CURLE_OUT_OF_MEMORY;
    allow_http_alone(curl);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_CAINFO, server->ca);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, json);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_cleanup(curl);
    return code;
}

/* Takes the list over: NULL, with the list freed, if memory runs out. */
static struct curl_slist *append(struct curl_slist *list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(list, line);
    if (!longer)
        curl_slist_free_all(list);
    return longer;
}

yk_status yki_kubeflow_post(const yki_kubeflow_server *server, const char *json)
{
    char token[MAX_TOKEN], reason[CURL_ERROR_SIZE] = "";
    YK_TRY(read_token(token, server->token));
    struct curl_slist *headers = append(NULL, token);
    headers = headers ? append(headers, "Content-Type: application/json") : NULL;
    CURLcode code = headers ? post(server, json, headers, reason) : CURLE_OUT_OF_MEMORY;
    curl_slist_free_all(headers);
    if (code == CURLE_OK)
        return YK_OK;
    return yki_error(YK_ERROR_NETWORK, "%s: %s", server->url,
                     reason[0] ? reason : curl_easy_strerror(code));
}
