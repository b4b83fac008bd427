/* SPDX-License-Identifier: Apache-2.0 */
/* Nearfield: exact and approximate neighbours of vectors. This header includes the whole public API. */
#ifndef NEARFIELD_NEARFIELD_H
#define NEARFIELD_NEARFIELD_H

#include "cluster.h"
#include "context.h"
#include "estimate.h"
#include "export.h"
#include "generate.h"
#include "io.h"
#include "ivf.h"
#include "matrix.h"
#include "metric.h"
#include "neighbours.h"
#include "params.h"
#include "radius.h"
#include "status.h"
#include "version.h"

#endif
