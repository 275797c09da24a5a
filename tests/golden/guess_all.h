/* For suites that are linked with guess_all.c. */
#ifndef RV_GOLDEN_GUESS_ALL_H
#define RV_GOLDEN_GUESS_ALL_H

/* Steps without guesses between two with some; 0. */
extern int guess_all_pause;

#endif
