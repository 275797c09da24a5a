/* BLAKE2b with a key, against values computed by Python's hashlib. */
#include "base/keyed_hash.h"
#include "support/test.h"

#include <string.h>

static void expect(const uint8_t *key, const void *data, size_t len, const uint8_t digest[16])
{
    struct rv_keyed_hash hash = rv_keyed_hash(key, data, len);

    assert_memory_equal(hash.words, digest, 16);
    assert_true(rv_keyed_hash64(key, data, len) == hash.words[0]);
}

static void known_digests(void **state)
{
    static const uint8_t of_nothing[16] = {0x3d, 0xaf, 0x97, 0xbc, 0xe7, 0x88, 0x8f, 0xd5,
                                           0x97, 0x73, 0xc6, 0x6b, 0xf6, 0x47, 0x45, 0x9c};
    static const uint8_t of_abc[16] = {0x1a, 0x64, 0xbe, 0x47, 0xe4, 0x72, 0x9d, 0x95,
                                       0x1c, 0x30, 0x2e, 0xe5, 0x43, 0xf9, 0x7c, 0xf3};
    static const uint8_t of_200_bytes[16] = {0x8a, 0xa5, 0x15, 0x2a, 0x0f, 0x33, 0xa3, 0x1b,
                                             0x72, 0x56, 0x8b, 0x61, 0x3e, 0xa3, 0xc9, 0x2e};
    uint8_t key[RV_KEYED_HASH_KEY], data[200];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)i;
    memcpy(key, data, sizeof(key));
    expect(key, data, 0, of_nothing);
    expect(key, "abc", 3, of_abc);
    expect(key, data, sizeof(data), of_200_bytes);
}

static void another_key_gives_another_hash(void **state)
{
    uint8_t a[RV_KEYED_HASH_KEY], b[RV_KEYED_HASH_KEY];

    (void)state;
    rv_keyed_hash_make_key(a);
    rv_keyed_hash_make_key(b);
    assert_memory_not_equal(a, b, sizeof(a));
    assert_true(rv_keyed_hash64(a, "abc", 3) != rv_keyed_hash64(b, "abc", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),
        cmocka_unit_test(another_key_gives_another_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
