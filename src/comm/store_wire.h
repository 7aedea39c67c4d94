/*
 * What travels between the store's server and its clients; all numbers little-endian.
 *
 *     server: hello  {magic, version, nonce}          on connecting
 *     client: answer {magic, version, HMAC-SHA256(secret, nonce)}
 *     server: a frame, YK_OK or YK_ERROR_DENIED             then, for each request:
 *     client: a frame {operation, key, value, number} server: a frame {status, value, number}
 *
 * Everything that a peer may make the other allocate is bounded here. Public users never see this.
 */
#ifndef YKI_STORE_WIRE_H
#define YKI_STORE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    YKI_STORE_MAGIC = 0x74536b79, /* "ykSt" */
    YKI_STORE_VERSION = 1,
    YKI_STORE_NONCE = 32,
    YKI_STORE_PROOF = 32,
    YKI_STORE_HANDSHAKE = 8 + 32, /* both hello and answer */
    YKI_STORE_HEADER = 24,
    YKI_STORE_MAX_KEY = 1 << 10,
    YKI_STORE_MAX_VALUE = 1 << 20,
    YKI_STORE_MAX_TOTAL = 256 << 20, /* of all keys and values of a server */
    YKI_STORE_MAX_CLIENTS = 4096
};

typedef enum yki_store_operation {
    YKI_STORE_SET = 1,
    YKI_STORE_GET, /* number: milliseconds to wait for the key */
    YKI_STORE_ADD, /* number: what to add */
    YKI_STORE_CHECK,
    YKI_STORE_WAIT /* as get, but without the value in the reply */
} yki_store_operation;

/* A frame's header; key_size is 0 in replies, code is an operation or a yk_status. */
typedef struct yki_store_header {
    uint32_t code, key_size, value_size;
    int64_t number;
} yki_store_header;

void yki_store_pack_header(unsigned char bytes[YKI_STORE_HEADER], const yki_store_header *header);
void yki_store_unpack_header(yki_store_header *header, const unsigned char bytes[YKI_STORE_HEADER]);

/* Magic, version and 32 bytes of nonce or proof. unpack returns the payload, NULL if foreign. */
void yki_store_pack_handshake(unsigned char bytes[YKI_STORE_HANDSHAKE],
                              const unsigned char payload[32]);
const unsigned char *yki_store_unpack_handshake(const unsigned char bytes[YKI_STORE_HANDSHAKE]);

/* What only a holder of the secret can answer to this nonce. */
bool yki_store_prove(unsigned char proof[YKI_STORE_PROOF], const char *secret,
                     const unsigned char nonce[YKI_STORE_NONCE]);

#endif
