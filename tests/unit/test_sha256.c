/* SHA-256 against the examples of FIPS 180-2. */
#include "base/sha256.h"
#include "support/test.h"

static void known_digests(void **state)
{
    char hex[RV_SHA256_HEX_LEN + 1];

    (void)state;
    rv_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    rv_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_digests)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
