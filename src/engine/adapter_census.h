/* Whether a registry of adapters is in order. */
#ifndef RV_ENGINE_ADAPTER_CENSUS_H
#define RV_ENGINE_ADAPTER_CENSUS_H

#include "engine/adapter_registry.h"

/* Walks everything and compares with the counters; for tests. */
bool rv_adapter_census_check(struct rv_adapter_registry *registry);

#endif
