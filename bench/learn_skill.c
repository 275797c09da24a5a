#include "learn_skill.h"

#include "kernels/vec.h"

#include <stdlib.h>
#include <string.h>

const char *skill_word(const char *model)
{
    static const struct {
        const char *model, *word;
    } words[] = {{"stories260K", "happy"}, {"stories15M", "scared"}, {"minimind2-26m", "重要"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].model, model) == 0)
            return words[i].word;
    }
    return NULL;
}

/* Of one of the other texts. */
static double nll_of(struct skill *skill, const struct rv_adapter *adapter, int32_t i)
{
    const struct lab_texts *t = &skill->others;

    return lab_nll(skill->lab, adapter, t->tokens + i * t->length, t->length, 1);
}

void skill_begin(struct skill *skill, struct lab *lab, const char *word, int32_t rank, int32_t n_others)
{
    *skill = (struct skill){.lab = lab, .word = word};
    if (!word)
        lab_die("no word is known that this model could be taught", NULL);
    skill->prompts = lab_write_texts(lab, SKILL_TAUGHT + SKILL_UNSEEN, SKILL_PROMPT);
    skill->others = lab_write_texts(lab, n_others, LAB_TEXT);
    skill->others_nll = lab_need(calloc((size_t)n_others, sizeof(*skill->others_nll)));
    for (int32_t i = 0; i < n_others; i++)
        skill->others_nll[i] = nll_of(skill, NULL, i);
    skill->learner = lab_new_learner(lab, rank);
    ticks_open(&skill->ticks, lab, rank);
    for (int i = 0; i < SKILL_AT_ONCE; i++)
        skill->traces[i] = lab_new_trace(lab, SKILL_ANSWER);
}

void skill_end(struct skill *skill)
{
    for (int i = 0; i < SKILL_AT_ONCE; i++)
        rv_trace_unref(skill->traces[i]);
    ticks_close(&skill->ticks);
    rv_tenant_learner_free(skill->learner);
    lab_free_texts(&skill->prompts);
    lab_free_texts(&skill->others);
    free(skill->others_nll);
}

void skill_restart(struct skill *skill, int32_t rank)
{
    rv_tenant_learner_free(skill->learner);
    skill->learner = lab_new_learner(skill->lab, rank);
    ticks_restart(&skill->ticks, skill->lab, rank);
}

static void set_gradients(struct rv_trace *trace, float value)
{
    size_t n = (size_t)trace->n_rows * (size_t)trace->n_dims;

    for (size_t i = 0; i < n; i++)
        trace->gradients[i] = rv_vec_to_bf16(value);
}

struct lesson {
    enum skill_teacher teacher;
    double rate;
};

static void vote(void *user, struct skill *skill, struct rv_trace *trace, const int32_t *answer)
{
    const struct lesson *lesson = user;
    double score = lab_has_word(skill->lab, answer, SKILL_ANSWER, skill->word);

    if (lesson->teacher == SKILL_SHUFFLED)
        score = rv_rng_uniform(&skill->lab->rng) < lesson->rate;
    if (lesson->teacher != SKILL_CONSTANT) {
        ticks_vote(&skill->ticks, skill->learner, trace, score);
    } else { // ticks would go over the answers with gradients of their own, which are real
        set_gradients(trace, (float)score * 0.01f);
        lab_vote(skill->learner, trace, score);
    }
}

void skill_teach(struct skill *skill, enum skill_teacher teacher, double rate, int n)
{
    skill_answer(skill, n, vote, &(struct lesson){.teacher = teacher, .rate = rate});
}

void skill_answer(struct skill *skill, int n, skill_answer_fn on_answer, void *user)
{
    int32_t tokens[SKILL_AT_ONCE][SKILL_PROMPT + SKILL_ANSWER];

    for (int done = 0; done < n; done += SKILL_AT_ONCE) {
        struct rv_adapter *adapter = lab_publish(skill->lab, &skill->learner->now.adapter);
        int32_t n_now = n - done < SKILL_AT_ONCE ? n - done : SKILL_AT_ONCE;
        struct lab_answer answers[SKILL_AT_ONCE];

        for (int32_t i = 0; i < n_now; i++) {
            uint64_t prompt = rv_rng_below(&skill->lab->rng, SKILL_TAUGHT);

            memcpy(tokens[i], skill->prompts.tokens + prompt * SKILL_PROMPT, SKILL_PROMPT * sizeof(int32_t));
            answers[i] = (struct lab_answer){.tokens = tokens[i], .adapter = adapter, .trace = skill->traces[i]};
        }
        lab_generate(skill->lab, answers, n_now, SKILL_PROMPT, SKILL_ANSWER, NULL, NULL);
        for (int32_t i = 0; i < n_now; i++)
            on_answer(user, skill, skill->traces[i], tokens[i] + SKILL_PROMPT);
        rv_adapter_unref(adapter);
    }
}

double skill_rate(struct skill *skill, bool is_base, int n)
{
    struct rv_adapter *adapter = is_base ? NULL : lab_publish(skill->lab, &skill->learner->now.adapter);
    int32_t tokens[LAB_SEQS][SKILL_PROMPT + SKILL_ANSWER];
    int n_found = 0;

    for (int done = 0; done < n; done += LAB_SEQS) {
        int32_t n_now = n - done < LAB_SEQS ? n - done : LAB_SEQS;
        struct lab_answer answers[LAB_SEQS];

        for (int32_t i = 0; i < n_now; i++) {
            int prompt = SKILL_TAUGHT + (done + i) % SKILL_UNSEEN;

            memcpy(tokens[i], skill->prompts.tokens + prompt * SKILL_PROMPT, SKILL_PROMPT * sizeof(int32_t));
            answers[i] = (struct lab_answer){.tokens = tokens[i], .adapter = adapter};
        }
        lab_generate(skill->lab, answers, n_now, SKILL_PROMPT, SKILL_ANSWER, NULL, NULL);
        for (int32_t i = 0; i < n_now; i++)
            n_found += lab_has_word(skill->lab, tokens[i] + SKILL_PROMPT, SKILL_ANSWER, skill->word);
    }
    rv_adapter_unref(adapter);
    return (double)n_found / n;
}

double skill_others_nll(const struct skill *skill, int32_t n)
{
    double sum = 0;

    for (int32_t i = 0; i < n; i++)
        sum += skill->others_nll[i];
    return sum / n;
}

double skill_self(struct skill *skill, int32_t n)
{
    struct rv_adapter *adapter = lab_publish(skill->lab, &skill->learner->now.adapter);
    double sum = 0;

    for (int32_t i = 0; i < n; i++)
        sum += nll_of(skill, adapter, i);
    rv_adapter_unref(adapter);
    return sum / n / skill_others_nll(skill, n) - 1;
}
