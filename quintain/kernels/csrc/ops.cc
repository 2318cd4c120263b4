// The only unit that sees TensorFlow's headers, which take seconds to compile: every operation.

#include "activation_op.h"
#include "adam_op.h"
#include "attention_op.h"
#include "attention_weights_op.h"
#include "cross_entropy_op.h"
#include "dropout_op.h"
#include "products_op.h"
#include "residual_norm_op.h"
#include "table_gradient_op.h"
