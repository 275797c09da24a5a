/* Structs that start with struct_size may grow at their end; here callers and library of different age meet. */
#include "engine/door.h"

#include <string.h>

ruvllm_status rv_door_fail_null(struct ruvllm_error *err, const char *what)
{
    return rv_fail(err, RUVLLM_INVALID, "'%s' is NULL", what);
}

static ruvllm_status read_size(const void *theirs, size_t size, size_t *their_size, const char *what,
                               struct ruvllm_error *err)
{
    memcpy(their_size, theirs, sizeof(*their_size));
    if (*their_size < sizeof(size_t) || *their_size > size)
        return rv_fail(err, RUVLLM_INVALID, "'struct_size' of %s is %zu; this library knows up to %zu", what,
                       *their_size, size);
    return RUVLLM_OK;
}

ruvllm_status rv_door_take_struct(void *ours, size_t size, const void *theirs, const char *what,
                                  struct ruvllm_error *err)
{
    size_t their_size;
    ruvllm_status rc;

    if (!theirs)
        return RUVLLM_OK;
    rc = read_size(theirs, size, &their_size, what, err);
    if (!rc)
        memcpy(ours, theirs, their_size);
    return rc;
}

ruvllm_status rv_door_give_struct(void *theirs, const void *ours, size_t size, const char *what,
                                  struct ruvllm_error *err)
{
    size_t their_size;
    ruvllm_status rc = read_size(theirs, size, &their_size, what, err);

    if (!rc)
        memcpy((char *)theirs + sizeof(size_t), (const char *)ours + sizeof(size_t), their_size - sizeof(size_t));
    return rc;
}
