/* Secrets, against values computed by Python's hashlib. */
#include "base/secret.h"
#include "support/test.h"

#include <string.h>

static void known_digests(void **state)
{
    static const uint8_t of_abc[32] = {0xbd, 0xdd, 0x81, 0x3c, 0x63, 0x42, 0x39, 0x72, 0x31, 0x71, 0xef,
                                       0x3f, 0xee, 0x98, 0x57, 0x9b, 0x94, 0x96, 0x4e, 0x3b, 0xb1, 0xcb,
                                       0x3e, 0x42, 0x72, 0x62, 0xc8, 0xc0, 0x68, 0xd5, 0x23, 0x19};
    static const uint8_t of_nothing[32] = {0x0e, 0x57, 0x51, 0xc0, 0x26, 0xe5, 0x43, 0xb2, 0xe8, 0xab, 0x2e,
                                           0xb0, 0x60, 0x99, 0xda, 0xa1, 0xd1, 0xe5, 0xdf, 0x47, 0x77, 0x8f,
                                           0x77, 0x87, 0xfa, 0xab, 0x45, 0xcd, 0xf1, 0x2f, 0xe3, 0xa8};
    uint8_t hash[RV_SECRET_BYTES];

    (void)state;
    rv_secret_hash(hash, "abc", 3);
    assert_memory_equal(hash, of_abc, sizeof(hash));
    rv_secret_hash(hash, "", 0);
    assert_memory_equal(hash, of_nothing, sizeof(hash));
}

static void a_secret_is_spelled_in_43_characters_and_never_twice_the_same(void **state)
{
    char texts[64][RV_SECRET_TEXT + 1];

    (void)state;
    for (size_t i = 0; i < 64; i++) {
        rv_secret_make(texts[i]);
        assert_int_equal(strlen(texts[i]), RV_SECRET_TEXT);
        assert_int_equal(strspn(texts[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                         RV_SECRET_TEXT);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(texts[i], texts[k]);
    }
}

static void one_bit_makes_two_hashes_different(void **state)
{
    uint8_t a[RV_SECRET_BYTES], b[RV_SECRET_BYTES];

    (void)state;
    rv_secret_hash(a, "abc", 3);
    for (size_t bit = 0; bit < 256; bit++) {
        memcpy(b, a, sizeof(a));
        assert_true(rv_secret_is_equal(a, b));
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(rv_secret_is_equal(a, b));
    }
}

static void wiping_leaves_zeros(void **state)
{
    char secret[16] = "do not tell this", zeros[16] = {0};

    (void)state;
    rv_secret_wipe(secret, sizeof(secret));
    assert_memory_equal(secret, zeros, sizeof(zeros));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),
        cmocka_unit_test(a_secret_is_spelled_in_43_characters_and_never_twice_the_same),
        cmocka_unit_test(one_bit_makes_two_hashes_different),
        cmocka_unit_test(wiping_leaves_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
