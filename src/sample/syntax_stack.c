/* Groups, alternatives and repetitions. An item waits in its level until it is known what follows it. */
#include "sample/syntax_stack.h"

static struct rv_syntax_stack_level *top(struct rv_syntax_stack *stack)
{
    return &stack->levels[stack->depth];
}

static void begin(struct rv_syntax_stack *stack)
{
    *top(stack) = (struct rv_syntax_stack_level){
        .ways = rv_syntax_alt(stack->syntax), .way = rv_syntax_seq(stack->syntax), .item = -1};
}

void rv_syntax_stack_init(struct rv_syntax_stack *stack, struct rv_syntax *syntax)
{
    stack->syntax = syntax;
    stack->depth = 0;
    begin(stack);
}

static void settle_item(struct rv_syntax_stack *stack)
{
    struct rv_syntax_stack_level *level = top(stack);

    if (level->item >= 0)
        rv_syntax_add(stack->syntax, level->way, level->item);
    level->item = -1;
}

void rv_syntax_stack_item(struct rv_syntax_stack *stack, int32_t node)
{
    settle_item(stack);
    top(stack)->item = node;
}

static void settle_way(struct rv_syntax_stack *stack)
{
    settle_item(stack);
    rv_syntax_add(stack->syntax, top(stack)->ways, top(stack)->way);
}

void rv_syntax_stack_or(struct rv_syntax_stack *stack)
{
    settle_way(stack);
    top(stack)->way = rv_syntax_seq(stack->syntax);
}

bool rv_syntax_stack_open(struct rv_syntax_stack *stack)
{
    if (stack->depth == RV_SYNTAX_MAX_DEPTH)
        return false;
    settle_item(stack);
    stack->depth++;
    begin(stack);
    return true;
}

bool rv_syntax_stack_close(struct rv_syntax_stack *stack)
{
    int32_t ways = top(stack)->ways;

    if (stack->depth == 0)
        return false;
    settle_way(stack);
    stack->depth--;
    rv_syntax_stack_item(stack, ways);
    return true;
}

bool rv_syntax_stack_repeat(struct rv_syntax_stack *stack, int32_t min, int32_t max)
{
    struct rv_syntax_stack_level *level = top(stack);

    if (level->item < 0)
        return false;
    level->item = rv_syntax_repeat(stack->syntax, level->item, min, max);
    return true;
}

int32_t rv_syntax_stack_end(struct rv_syntax_stack *stack)
{
    settle_way(stack);
    return top(stack)->ways;
}

static bool read_count(const char *text, size_t len, size_t *at, int32_t *out)
{
    int32_t value = 0;
    size_t first = *at;

    for (; *at < len && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
        value = 10 * value + (text[*at] - '0');
        if (value > RV_SYNTAX_STACK_MAX_COUNT)
            return false;
    }
    *out = value;
    return *at > first;
}

bool rv_syntax_stack_counts(const char *text, size_t len, size_t *at, int32_t *min, int32_t *max)
{
    size_t i = *at + 1;
    bool has_min = read_count(text, len, &i, min), has_max;

    *max = *min;
    if (i < len && text[i] == ',') {
        i++;
        has_max = read_count(text, len, &i, max);
        if (!has_min && !has_max)
            return false;
        *min = has_min ? *min : 0;
        *max = has_max ? *max : -1;
    } else if (!has_min) {
        return false;
    }
    if (i >= len || text[i] != '}' || (*max >= 0 && *min > *max))
        return false;
    *at = i + 1;
    return true;
}

bool rv_syntax_stack_hex(const char *text, size_t len, size_t *at, int n, uint32_t *out)
{
    uint32_t value = 0;

    for (int i = 0; i < n; i++) {
        char c = *at + (size_t)i < len ? text[*at + (size_t)i] : '\0';

        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            value = value << 4 | (uint32_t)(c - 'A' + 10);
        else
            return false;
    }
    *at += (size_t)n;
    *out = value;
    return true;
}
