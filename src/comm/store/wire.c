/* Packing by hand, so that neither padding nor byte order of a machine shows on the wire. */
#define _GNU_SOURCE
#include "comm/store/wire.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <string.h>

static void put32(unsigned char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

void yki_store_pack_header(unsigned char bytes[YKI_STORE_HEADER], const yki_store_header *header)
{
    uint64_t number = htole64((uint64_t)header->number);
    put32(bytes, header->code);
    put32(bytes + 4, header->key_size);
    put32(bytes + 8, header->value_size);
    put32(bytes + 12, 0);
    memcpy(bytes + 16, &number, sizeof number);
}

void yki_store_unpack_header(yki_store_header *header, const unsigned char bytes[YKI_STORE_HEADER])
{
    uint64_t number;
    memcpy(&number, bytes + 16, sizeof number);
    *header = (yki_store_header){.code = get32(bytes),
                                 .key_size = get32(bytes + 4),
                                 .value_size = get32(bytes + 8),
                                 .number = (int64_t)le64toh(number)};
}

bool yki_store_request_valid(const yki_store_header *header)
{
    bool keyless = header->code == YKI_STORE_LIST || header->code == YKI_STORE_LEAVE;
    size_t limit = header->code == YKI_STORE_COMPARE_SET ? 2 * YKI_STORE_MAX_VALUE
                   : header->code == YKI_STORE_WILL      ? YKI_STORE_MAX_WILL
                                                         : YKI_STORE_MAX_VALUE;
    return (header->key_size > 0 || keyless) && header->key_size <= YKI_STORE_MAX_KEY &&
           header->value_size <= limit;
}

static void pack_magic(unsigned char *bytes)
{
    put32(bytes, YKI_STORE_MAGIC);
    put32(bytes + 4, YKI_STORE_VERSION);
}

static bool has_magic(const unsigned char *bytes)
{
    return get32(bytes) == YKI_STORE_MAGIC && get32(bytes + 4) == YKI_STORE_VERSION;
}

void yki_store_pack_hello(unsigned char bytes[YKI_STORE_HELLO],
                          const unsigned char nonce[YKI_STORE_NONCE])
{
    pack_magic(bytes);
    memcpy(bytes + 8, nonce, YKI_STORE_NONCE);
}

bool yki_store_unpack_hello(unsigned char nonce[YKI_STORE_NONCE],
                            const unsigned char bytes[YKI_STORE_HELLO])
{
    memcpy(nonce, bytes + 8, YKI_STORE_NONCE);
    return has_magic(bytes);
}

int yki_store_hello_version(const unsigned char bytes[YKI_STORE_HELLO])
{
    return get32(bytes) == YKI_STORE_MAGIC ? (int)(get32(bytes + 4) & INT32_MAX) : -1;
}

void yki_store_pack_answer(unsigned char bytes[YKI_STORE_ANSWER], const yki_store_answer *answer)
{
    pack_magic(bytes);
    memcpy(bytes + 8, answer->nonce, YKI_STORE_NONCE);
    memcpy(bytes + 8 + YKI_STORE_NONCE, answer->proof, YKI_STORE_PROOF);
}

bool yki_store_unpack_answer(yki_store_answer *answer, const unsigned char bytes[YKI_STORE_ANSWER])
{
    memcpy(answer->nonce, bytes + 8, YKI_STORE_NONCE);
    memcpy(answer->proof, bytes + 8 + YKI_STORE_NONCE, YKI_STORE_PROOF);
    return has_magic(bytes);
}

/* A thread may still connect while the process ends, as in a launcher that waits for no store: then
 * OpenSSL must not free what the thread reads. */
static void keep_openssl_at_exit(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

bool yki_store_prove(unsigned char proof[YKI_STORE_PROOF], const char *secret, yki_store_role role,
                     yki_store_nonces nonces)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned char text[1 + 2 * YKI_STORE_NONCE] = {(unsigned char)role};
    pthread_once(&once, keep_openssl_at_exit);
    unsigned int size = YKI_STORE_PROOF;
    memcpy(text + 1, nonces.server, YKI_STORE_NONCE);
    memcpy(text + 1 + YKI_STORE_NONCE, nonces.client, YKI_STORE_NONCE);
    return HMAC(EVP_sha256(), secret, (int)strlen(secret), text, sizeof text, proof, &size) != NULL;
}
