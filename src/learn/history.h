/*
 * A tenant's log as people read it: what was said when, and what came of it, newest first. What came of an event is
 * known when it is written, so it is kept with it, as a note behind the event's own update; reading asks the store
 * alone and applies nothing.
 */
#ifndef RV_LEARN_HISTORY_H
#define RV_LEARN_HISTORY_H

#include "base/arena.h"
#include "store/store.h"

enum {
    RV_HISTORY_NOTE_BYTES = 40,
    RV_HISTORY_MAX = 1000,     // rows of one page
    RV_HISTORY_TEXT_MAX = 2048 // bytes of a text that is shown; longer ones end in an ellipsis
};

/* What came of an event. A number that is not known is not finite. */
struct rv_history_note {
    int64_t generation; // -1: not known
    double advantage;
    double kl;
    double gain;
};

/* An event's update with the note behind it: *out is the caller's to rv_free. */
RV_CHECKED ruvllm_status rv_history_add_note(struct rv_str delta, const struct rv_history_note *note,
                                             struct rv_str *out, struct ruvllm_error *err);
/* Takes the note off again. Without one, *delta stays, nothing is known, and the result is false. */
bool rv_history_take_note(struct rv_str *delta, struct rv_history_note *note);

struct rv_history_row {
    int64_t seq;
    int64_t time_us; // Unix
    int64_t about;   // the generation that had answered, or that was gone back to, also by the gate
    enum rv_store_event_kind kind;
    bool is_forgotten;
    double score;
    struct rv_history_note note;
    const char *prompt; // "" where nothing was kept, as the next three
    const char *answer;
    const char *correction;
    const char *reason;
};

struct rv_history {
    struct rv_history_row *rows; // newest first
    size_t n;
    int64_t next; // what `before` has to be for the page that follows; 0: there is none
    struct rv_arena arena;
};

/*
 * Up to `max` events of a tenant and model with a number below `before` (0: from the newest). A page may have fewer
 * rows, even none, and still have one that follows: so many events of other models lie between. Released by the caller,
 * also after a failure.
 */
RV_CHECKED ruvllm_status rv_history_read(struct rv_history *out, struct ruvllm_store *store, const char *tenant,
                                         const char *model, int64_t before, size_t max, struct ruvllm_error *err);
void rv_history_release(struct rv_history *history);

#endif
