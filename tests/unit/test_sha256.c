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

static void pieces_make_the_same_digest(void **state)
{
    char data[1000], whole[RV_SHA256_HEX_LEN + 1], pieces[RV_SHA256_HEX_LEN + 1];
    struct rv_sha256 sha;

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 7);
    rv_sha256_hex(data, sizeof(data), whole);
    for (size_t step = 1; step < 200; step += 13) {
        rv_sha256_init(&sha);
        for (size_t at = 0; at < sizeof(data); at += step)
            rv_sha256_add(&sha, data + at, sizeof(data) - at < step ? sizeof(data) - at : step);
        rv_sha256_finish(&sha, pieces);
        assert_string_equal(pieces, whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_digests), cmocka_unit_test(pieces_make_the_same_digest)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
