/* Packing by hand, so that neither padding nor byte order of a machine shows on the wire. */
#define _GNU_SOURCE
#include "comm/store_wire.h"

#include <endian.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
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

void yki_store_pack_handshake(unsigned char bytes[YKI_STORE_HANDSHAKE],
                              const unsigned char payload[32])
{
    put32(bytes, YKI_STORE_MAGIC);
    put32(bytes + 4, YKI_STORE_VERSION);
    memcpy(bytes + 8, payload, 32);
}

const unsigned char *yki_store_unpack_handshake(const unsigned char bytes[YKI_STORE_HANDSHAKE])
{
    bool ours = get32(bytes) == YKI_STORE_MAGIC && get32(bytes + 4) == YKI_STORE_VERSION;
    return ours ? bytes + 8 : NULL;
}

bool yki_store_prove(unsigned char proof[YKI_STORE_PROOF], const char *secret,
                     const unsigned char nonce[YKI_STORE_NONCE])
{
    unsigned int size = YKI_STORE_PROOF;
    return HMAC(EVP_sha256(), secret, (int)strlen(secret), nonce, YKI_STORE_NONCE, proof, &size) !=
           NULL;
}
