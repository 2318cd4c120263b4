// The only unit that sees TensorFlow's headers, which take seconds to compile: every operation.

#include "adam_op.h"
#include "cross_entropy_op.h"
