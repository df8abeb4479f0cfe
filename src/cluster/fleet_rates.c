#include "fleet_rates.h"

#include <math.h>

#include "common/json_member.h"

double fleet_rate(const json_t *info, const char *key) {
    double value;
    return member_number(json_object_get(info, FLEET_RATES), key, &value) ? value : NAN;
}

const char *fleet_rates_differ(const json_t *one, const json_t *other) {
    json_t *rates = json_object_get(one, FLEET_RATES), *value;
    const char *key;
    json_object_foreach(rates, key, value) {
        double mine = fleet_rate(one, key), its = fleet_rate(other, key);
        if (!isnan(mine) && !isnan(its) && mine != its)
            return key;
    }
    return NULL;
}
