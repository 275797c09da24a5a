/* How large the changes of an adapter are: Frobenius norms of scale B A, from the factors, over all matrices. */
#ifndef RV_MODEL_ADAPTER_NORM_H
#define RV_MODEL_ADAPTER_NORM_H

#include "model/adapter.h"

double rv_adapter_norm(const struct rv_adapter *adapter);
/* Of the difference of two adapters of the same base; 0 exactly for equal ones. */
double rv_adapter_norm_difference(const struct rv_adapter *x, const struct rv_adapter *y);

#endif
