/* SPDX-License-Identifier: Apache-2.0 */

/* A driver that supports erlang:port_call, unlike those of Erlang/OTP. It returns its
 * argument. */

#include <string.h>

#include <erl_driver.h>

static ErlDrvData start(ErlDrvPort port, char *command)
{
	(void)command;
	return (ErlDrvData)port;
}

static ErlDrvSSizeT call(ErlDrvData data, unsigned int command, char *bytes, ErlDrvSizeT size,
			 char **answer, ErlDrvSizeT room, unsigned int *flags)
{
	(void)data, (void)command, (void)flags;
	if (room < size)
		return -1;
	memcpy(*answer, bytes, size);
	return size;
}

static ErlDrvEntry entry = {
	.driver_name = "own_drv",
	.start = start,
	.call = call,
	.extended_marker = ERL_DRV_EXTENDED_MARKER,
	.major_version = ERL_DRV_EXTENDED_MAJOR_VERSION,
	.minor_version = ERL_DRV_EXTENDED_MINOR_VERSION,
	.driver_flags = ERL_DRV_FLAG_USE_PORT_LOCKING,
};

DRIVER_INIT(own_drv)
{
	return &entry;
}
