// Products by every instruction set of this machine.

#define PRODUCT_CALL QUINTAIN_DISPATCH
#include "product_runs.h"

int main() { return RunSets(RunOnce); }
