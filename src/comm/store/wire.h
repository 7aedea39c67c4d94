/*
 * What travels between the store's server and its clients; all numbers are little-endian.
 *
 *     server: hello  {magic, version, server's nonce}               on connecting
 *     client: answer {magic, version, client's nonce, client's proof}
 *     server: a frame, YK_OK with the server's proof, or YK_ERROR_DENIED
 *     client: a frame {operation, key, value, number}               then, for each request
 *     server: a frame {status, value, number}
 *
 * A proof is HMAC-SHA256(secret, role || server's nonce || client's nonce): both sides show that
 * they know the secret, neither sends it, and an old proof does not match a new nonce.
 *
 * Everything that a peer may make the other allocate is bounded here. Public users never see this.
 */
#ifndef YKI_STORE_WIRE_H
#define YKI_STORE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    YKI_STORE_MAGIC = 0x74536b79, /* "ykSt" */
    YKI_STORE_VERSION = 3,
    YKI_STORE_NONCE = 32,
    YKI_STORE_PROOF = 32,
    YKI_STORE_HELLO = 8 + YKI_STORE_NONCE,
    YKI_STORE_ANSWER = 8 + YKI_STORE_NONCE + YKI_STORE_PROOF,
    YKI_STORE_HEADER = 24,
    YKI_STORE_MAX_KEY = 1 << 10,
    YKI_STORE_MAX_VALUE = 1 << 20,
    YKI_STORE_MAX_WILL = 1 << 12,
    YKI_STORE_MAX_TOTAL = 256 << 20, /* of all keys and values of a server */
    YKI_STORE_MAX_STRANGERS = 4096,  /* connections that have not proved themselves */
};

typedef enum yki_store_operation {
    YKI_STORE_SET = 1,
    YKI_STORE_GET, /* number: milliseconds to wait for the key */
    YKI_STORE_ADD, /* number: what to add */
    YKI_STORE_CHECK,
    YKI_STORE_WAIT,        /* as get, but without the value in the reply */
    YKI_STORE_COMPARE_SET, /* number: the size of what is expected, which begins the value */
    YKI_STORE_DELETE,      /* the reply's number: whether the key existed */
    YKI_STORE_LIST,        /* the key is a prefix, and may be empty; number: how many bytes of it to
                              leave out of the reply, which is the keys that begin with it */
    YKI_STORE_WILL,        /* the key and value to set if the connection ends without LEAVE */
    YKI_STORE_LEAVE        /* the last request, which has no reply */
} yki_store_operation;

/* As what is expected by YKI_STORE_COMPARE_SET: the key must not exist. */
#define YKI_STORE_ABSENT (-1)

/* A frame's header; key_size is 0 in replies, code is an operation or a yk_status. */
typedef struct yki_store_header {
    uint32_t code, key_size, value_size;
    int64_t number;
} yki_store_header;

void yki_store_pack_header(unsigned char bytes[YKI_STORE_HEADER], const yki_store_header *header);
void yki_store_unpack_header(yki_store_header *header, const unsigned char bytes[YKI_STORE_HEADER]);
/* Whether the sizes in the header of a request are within the bounds above. */
bool yki_store_request_valid(const yki_store_header *header);

/* The unpack functions return false if the bytes are not those of this version of the store. */
void yki_store_pack_hello(unsigned char bytes[YKI_STORE_HELLO],
                          const unsigned char nonce[YKI_STORE_NONCE]);
bool yki_store_unpack_hello(unsigned char nonce[YKI_STORE_NONCE],
                            const unsigned char bytes[YKI_STORE_HELLO]);

/* The version in a hello of any yoke; -1 if it is not one. */
int yki_store_hello_version(const unsigned char bytes[YKI_STORE_HELLO]);

typedef struct yki_store_answer {
    unsigned char nonce[YKI_STORE_NONCE], proof[YKI_STORE_PROOF];
} yki_store_answer;

void yki_store_pack_answer(unsigned char bytes[YKI_STORE_ANSWER], const yki_store_answer *answer);
bool yki_store_unpack_answer(yki_store_answer *answer, const unsigned char bytes[YKI_STORE_ANSWER]);

typedef enum yki_store_role { YKI_STORE_CLIENT, YKI_STORE_SERVER } yki_store_role;

typedef struct yki_store_nonces {
    const unsigned char *server, *client; /* of YKI_STORE_NONCE bytes each */
} yki_store_nonces;

/* What only a holder of the secret can compute; false if libcrypto fails. */
bool yki_store_prove(unsigned char proof[YKI_STORE_PROOF], const char *secret, yki_store_role role,
                     yki_store_nonces nonces);

#endif
