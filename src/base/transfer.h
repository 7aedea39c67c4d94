/* What all transfers by libcurl have in common. In builds with libcurl only (YOKE_DOWNLOAD). */
#ifndef YKI_TRANSFER_H
#define YKI_TRANSFER_H

#include <curl/curl.h>

/*
 * A transfer from or to url; NULL if memory runs out. It does not use signals, programs that this
 * process starts do not inherit its socket, and it fails if no connection is made within
 * connect_s seconds, or for an answer of 400 and above. The reason of a failure goes to `reason`,
 * which must outlive the transfer.
 */
CURL *yki_transfer_create(const char *url, long connect_s, char reason[CURL_ERROR_SIZE]);

#endif
