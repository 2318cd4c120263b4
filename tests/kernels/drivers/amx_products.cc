// Products by the processor's units for whole tiles, with tiles in software.

#define PRODUCT_CALL(function, ...) quintain::amx_bf16::function(__VA_ARGS__)
#include "product_runs.h"

int main() {
  RunOnce();
  return 0;
}
