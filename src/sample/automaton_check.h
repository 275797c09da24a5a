/*
 * What is judged about an automaton once it is written: from which states its rules can end, and that no rule begins
 * with itself.
 */
#ifndef RV_SAMPLE_AUTOMATON_CHECK_H
#define RV_SAMPLE_AUTOMATON_CHECK_H

#include "sample/automaton.h"

/* Sets `is_useful`. INVALID when the start is not, or when a rule would call itself before it has read anything. */
RV_CHECKED ruvllm_status rv_automaton_check(struct rv_automaton *automaton, struct ruvllm_error *err);

#endif
