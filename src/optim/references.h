/* Keeping the objects of this layer alive: whatever is made on top of one retains it, and gives the
 * reference up with the object's public destroy function. */
#ifndef YKI_OPTIM_REFERENCES_H
#define YKI_OPTIM_REFERENCES_H

#include <yoke/optim.h>
#include <yoke/scaler.h>

void yki_optimizer_retain(yk_optimizer *optimizer);
void yki_optimizer_release(yk_optimizer *optimizer);
void yki_ema_retain(yk_ema *ema);
void yki_lookahead_retain(yk_lookahead *lookahead);
void yki_grad_scaler_retain(yk_grad_scaler *scaler);

#endif
